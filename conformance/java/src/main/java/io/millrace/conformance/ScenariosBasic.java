package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** One scenario for each basic kind of step. */
final class ScenariosBasic implements Scenarios {
    @Override
    public void register(Registry r) {
        r.add("filter-map", Inputs.of(150).topic("in"), b ->
            b.<String, String>stream("in")
                .filter((k, v) -> v != null && !v.startsWith("p"))
                .mapValues(v -> v + "!")
                .to("out"));

        r.stores("count", Inputs.of(200).topic("in"), b ->
            b.<String, String>stream("in").groupByKey()
                .count(Materialized.as("counts"))
                .toStream()
                .to("out", Produced.with(Serdes.String(), Serdes.Long())));

        r.stores("count-tumbling", Inputs.of(250).topic("in"), b ->
            b.<String, String>stream("in").groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(10), Duration.ofMillis(5)))
                .count(Materialized.as("counts"))
                .toStream()
                .to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.Long())));

        r.stores("stream-table-join", Inputs.of(200).topic("s").topic("t", t -> t.nullValues(0.2)), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("rows"));
            KStream<String, String> s = b.stream("s");
            s.join(t, (x, y) -> x + "/" + y).to("joined");
            s.leftJoin(t, (x, y) -> x + "/" + y, Joined.as("left")).to("left-joined");
        });

        r.add("repartition", Inputs.of(150).topic("in"), b ->
            b.<String, String>stream("in")
                .selectKey((k, v) -> v == null ? null : v.substring(0, 1))
                .repartition(Repartitioned.as("r"))
                .to("out"));
    }
}
