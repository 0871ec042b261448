package io.millrace.conformance;

import java.time.Duration;
import java.util.function.Supplier;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** Processors with stores and timers. */
final class ScenariosProcess implements Scenarios {
    private abstract static class Step extends ContextualProcessor<String, String, String, String> {
        TimestampedKeyValueStore<String, String> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore("st");
        }
    }

    /** Keeps the last value of each key; a value with a 7 lists the store, one with a 9 deletes. */
    private static final class Keeper extends Step {
        @Override
        public void process(Record<String, String> r) {
            if (r.key() == null) {
                context().forward(r.withKey("none"));
                return;
            }
            ValueAndTimestamp<String> before = store.get(r.key());
            String old = before == null ? "-" : before.value() + "@" + before.timestamp();
            if (r.value() != null && r.value().endsWith("9")) {
                store.delete(r.key());
            } else if (r.value() != null) {
                store.put(r.key(), ValueAndTimestamp.make(r.value(), r.timestamp()));
            }
            context().forward(r.withValue(old + "->" + r.value()));
            if (r.value() != null && r.value().contains("7")) {
                try (KeyValueIterator<String, ValueAndTimestamp<String>> it = store.range("b", "d")) {
                    while (it.hasNext()) {
                        KeyValue<String, ValueAndTimestamp<String>> row = it.next();
                        context().forward(r.withKey(row.key).withValue(row.value.value()).withTimestamp(row.value.timestamp()));
                    }
                }
            }
        }
    }

    /** Counts by key and sends all counts at each beat, with the time that it is given. */
    private static final class Beat extends Step {
        private final PunctuationType type;
        private final Duration every;

        Beat(PunctuationType type, long every) {
            this.type = type;
            this.every = Duration.ofMillis(every);
        }

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            context.schedule(every, type, now -> {
                try (KeyValueIterator<String, ValueAndTimestamp<String>> it = store.all()) {
                    while (it.hasNext()) {
                        KeyValue<String, ValueAndTimestamp<String>> row = it.next();
                        context().forward(new Record<>(row.key, row.value.value() + " at " + now, Math.max(now, 0)));
                    }
                }
            });
        }

        @Override
        public void process(Record<String, String> r) {
            if (r.key() != null) {
                ValueAndTimestamp<String> n = store.get(r.key());
                long count = n == null ? 1 : Long.parseLong(n.value()) + 1;
                store.put(r.key(), ValueAndTimestamp.make(Long.toString(count), r.timestamp()));
            }
        }
    }

    /** Fires once, and is cancelled then. */
    private static final class Once extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> r) {
            var cancel = new org.apache.kafka.streams.processor.Cancellable[1];
            cancel[0] = context().schedule(Duration.ofMillis(10), PunctuationType.STREAM_TIME, now -> {
                context().forward(new Record<>(r.key(), r.value() + " set at " + r.timestamp(), now));
                cancel[0].cancel();
            });
        }
    }

    private static final class Values extends ContextualFixedKeyProcessor<String, String, String> {
        @Override
        public void init(FixedKeyProcessorContext<String, String> context) {
            super.init(context);
        }

        @Override
        public void process(FixedKeyRecord<String, String> r) {
            context().forward(r.withValue(r.value() + "!"));
            if (r.value() == null) {
                context().forward(r.withValue("was null").withTimestamp(r.timestamp() + 1000));
            }
        }
    }

    /** Counts in windows of ten, and sends what lies within thirty before. */
    private static final class Windows extends ContextualProcessor<String, String, String, String> {
        private TimestampedWindowStore<String, String> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore("st");
        }

        @Override
        public void process(Record<String, String> r) {
            if (r.key() == null) {
                return;
            }
            long start = r.timestamp() / 10 * 10;
            ValueAndTimestamp<String> n = store.fetch(r.key(), start);
            long count = n == null ? 1 : Long.parseLong(n.value()) + 1;
            store.put(r.key(), ValueAndTimestamp.make(Long.toString(count), r.timestamp()), start);
            StringBuilder found = new StringBuilder();
            try (var it = store.fetch(r.key(), Math.max(0, start - 30), start)) {
                while (it.hasNext()) {
                    var row = it.next();
                    found.append(row.key).append('=').append(row.value.value()).append(' ');
                }
            }
            context().forward(r.withValue(found.toString()));
        }
    }

    /** Sends on to one of two children, and tells where a record is from. */
    private static final class Sorter extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> r) {
            var m = context().recordMetadata().orElseThrow();
            String from = m.topic() + "-" + m.partition() + "@" + m.offset();
            context().forward(r.withValue(from), r.value() != null && r.value().startsWith("p") ? "left" : "right");
        }
    }

    private static final class Heads extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> r) {
            var h = new org.apache.kafka.common.header.internals.RecordHeaders(r.headers());
            h.remove("empty");
            h.add("seen", r.value() == null ? null : r.value().getBytes());
            context().forward(r.withHeaders(h));
        }
    }

    private static KStream<String, String> process(org.apache.kafka.streams.StreamsBuilder b, KeyValueBytesStoreSupplier store, Supplier<Step> step) {
        b.addStateStore(Stores.timestampedKeyValueStoreBuilder(store, Serdes.String(), Serdes.String()));
        return b.<String, String>stream("in").process(step::get, Named.as("p"), "st");
    }

    @Override
    public void register(Registry r) {
        Inputs in = Inputs.of(200).topic("in", t -> t.keys("a", "b", "c", "d", "e"));
        r.add("process-store", in, b -> process(b, Stores.persistentTimestampedKeyValueStore("st"), Keeper::new).to("out"));
        r.add("process-store-memory", in, b -> process(b, Stores.inMemoryKeyValueStore("st"), Keeper::new).to("out"));

        Inputs timed = Inputs.of(200).topic("in").advances(0.2, 40);
        r.add("punctuate-stream-time", timed, b ->
            process(b, Stores.persistentTimestampedKeyValueStore("st"), () -> new Beat(PunctuationType.STREAM_TIME, 13)).to("out"));
        r.add("punctuate-wall-clock", timed, b ->
            process(b, Stores.inMemoryKeyValueStore("st"), () -> new Beat(PunctuationType.WALL_CLOCK_TIME, 25)).to("out"));
        r.add("punctuate-cancelled", Inputs.of(60).topic("in").jumps(0.1, 50), b ->
            b.<String, String>stream("in").process(Once::new, Named.as("p")).to("out"));

        r.add("process-values", Inputs.of(100).topic("in"), b ->
            b.<String, String>stream("in").processValues(Values::new, Named.as("p")).to("out"));

        r.add("process-window-store", in, b -> {
            b.addStateStore(Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore("st", Duration.ofMillis(100), Duration.ofMillis(10), false),
                Serdes.String(), Serdes.String()));
            b.<String, String>stream("in").process(Windows::new, Named.as("p"), "st").to("out");
        });

        r.add("process-forward-to", Inputs.of(100).topic("in"), b -> {
            KStream<String, String> s = b.<String, String>stream("in").process(Sorter::new, Named.as("p"));
            s.mapValues(v -> v + " left", Named.as("left")).to("out");
            s.filter((k, v) -> k != null, Named.as("right")).to("out");
        });

        r.add("process-headers", Inputs.of(100).topic("in").headers(0.6), b ->
            b.<String, String>stream("in").process(Heads::new, Named.as("p"))
                .groupByKey(org.apache.kafka.streams.kstream.Grouped.as("g"))
                .count(org.apache.kafka.streams.kstream.Materialized.as("counts"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));
    }
}
