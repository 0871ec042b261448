package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
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
    }
}
