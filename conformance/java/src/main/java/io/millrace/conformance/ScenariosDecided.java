package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;

/** Inputs of what is decided not to be as in Kafka Streams. Models judge the twins. */
final class ScenariosDecided implements Scenarios {
    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    @Override
    public void register(Registry r) {
        // Results on close with the default retention, and jumps of time.
        r.add("close-after-jumps", Inputs.of(250).topic("in", t -> t.nullValues(0)).jumps(0.15, 60).headers(0).last("in", "a", "end", 90), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .emitStrategy(EmitStrategy.onWindowClose())
                .count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.Long())));

        // A left join of streams in which rows come out of order, and later than the grace.
        for (long grace : new long[] {5, 50}) {
            r.add("left-join-late-" + grace, Inputs.of(250).topic("l", t -> t.nullKeys(0).nullValues(0)).topic("r", t -> t.nullKeys(0).nullValues(0))
                .disorder(0.5, 60).headers(0).last("l", "a", "end", 300), b -> {
                KStream<String, String> right = b.stream("r");
                b.<String, String>stream("l").leftJoin(right, (x, y) -> x + "/" + y, JoinWindows.ofTimeDifferenceAndGrace(ms(10), ms(grace)),
                        StreamJoined.<String, String, String>as("j").withName("j"))
                    .to("out");
            });
        }

        // A table joined with one derived from it.
        r.add("join-with-derived", Inputs.of(200).topic("in", t -> t.nullValues(0.25)).headers(0), b -> {
            KTable<String, String> t = b.table("in", Materialized.as("rows"));
            t.mapValues(v -> v.startsWith("p") ? null : v).join(t, (x, y) -> x + "/" + y).toStream().to("out");
        });
    }
}
