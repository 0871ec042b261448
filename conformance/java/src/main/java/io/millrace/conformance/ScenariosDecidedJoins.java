package io.millrace.conformance;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.Stores;

/**
 * Inputs of what is decided not to be as in Kafka Streams about joins of streams, with tables too, and about the optimisations.
 * Models judge the twins.
 */
final class ScenariosDecidedJoins implements Scenarios {
    private static final ValueJoiner<String, String, String> PAIR = (x, y) -> x + "/" + y;

    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private static JoinWindows windows(long before, long after, long grace) {
        return JoinWindows.ofTimeDifferenceAndGrace(ms(Math.max(before, after)), ms(grace)).before(ms(before)).after(ms(after));
    }

    private static StreamJoined<String, String, String> joined() {
        return StreamJoined.<String, String, String>as("j").withName("j");
    }

    /** Rows come out of order, and later than the grace. */
    private static Inputs late(double nullKeys) {
        return Inputs.of(250).topic("l", t -> t.nullKeys(nullKeys).nullValues(nullKeys)).topic("r", t -> t.nullKeys(nullKeys).nullValues(nullKeys))
            .disorder(0.5, 60).headers(0).last("l", "a", "end", 300);
    }

    @Override
    public void register(Registry r) {
        for (long grace : new long[] {5, 50}) {
            r.add("left-join-late-" + grace, late(0), b -> {
                KStream<String, String> right = b.stream("r");
                b.<String, String>stream("l").leftJoin(right, PAIR, windows(10, 10, grace), joined()).to("out");
            });
        }
        r.add("inner-join-late", late(0.04), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(b.stream("r"), PAIR, windows(12, 5, 3), joined()).to("out");
        });
        r.add("left-join-asymmetric", late(0.04), b -> {
            KStream<String, String> l = b.stream("l");
            l.leftJoin(b.stream("r"), PAIR, windows(20, 0, 0), joined()).to("out");
        });
        r.add("outer-join-late", late(0.04), b -> {
            KStream<String, String> l = b.stream("l");
            l.outerJoin(b.stream("r"), PAIR, windows(5, 14, 10), joined()).to("out");
        });
        r.add("join-at-the-retention", Inputs.of(300).topic("l", t -> t.keys("a", "b")).topic("r", t -> t.keys("a", "b"))
            .step(2).disorder(0.5, 25).grid(0.6, 5).headers(0), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(b.stream("r"), PAIR, windows(5, 5, 10), joined()).to("out");
        });
        r.add("join-near-the-epoch", Inputs.of(80).topic("l", t -> t.keys("a", "b")).topic("r", t -> t.keys("a", "b"))
            .step(1).disorder(0.4, 15).jumps(0, 1).headers(0), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(b.stream("r"), PAIR, windows(-5, 15, 20), joined()).to("out");
        });

        Map<String, String> oneStore = Map.of("topology.optimization", "single.store.self.join");
        Inputs single = Inputs.of(150).topic("l", t -> t.nullKeys(0.06)).disorder(0.4, 30).headers(0).last("l", "a", "end", 300);
        r.add("left-self-join-one-store", single, b -> {
            KStream<String, String> l = b.stream("l");
            l.leftJoin(l, PAIR, windows(-3, 12, 20), joined()).to("out");
        }, oneStore);
        r.add("outer-self-join-one-store", single, b -> {
            KStream<String, String> l = b.stream("l");
            l.outerJoin(l, PAIR, windows(10, 10, 20), joined()).to("out");
        }, oneStore);

        // Java fails at the null keys, and the handler goes on.
        r.add("join-grace-null-key", Inputs.of(250).topic("s", t -> t.nullKeys(0.15)).topic("t", t -> t.nullValues(0.2)).headers(0).apart()
            .last("s", "a", "end", 100), b -> {
            KTable<String, String> t = b.table("t", Materialized.as(Stores.persistentVersionedKeyValueStore("rows", Duration.ofHours(1))));
            b.<String, String>stream("s").leftJoin(t, PAIR, Joined.<String, String, String>as("j").withGracePeriod(ms(12))).to("out");
        }, Map.of("processing.exception.handler", "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler"));

        r.add("merged-repartition-null-keys", Inputs.of(200).topic("in", t -> t.values("p1", "q1", "q2", "r")), b -> {
            KStream<String, String> kept = b.<String, String>stream("in").selectKey((k, v) -> v == null || v.startsWith("p") ? null : k)
                .filter((k, v) -> v == null || !v.equals("q1"));
            kept.to("out");
            kept.groupByKey().count(Materialized.as("counts")).toStream().to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        }, Map.of("topology.optimization", "merge.repartition.topics"));
    }
}
