package io.millrace.conformance;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TopicNameExtractor;

/** Sources, sinks, and records that cannot be read. */
final class ScenariosSources implements Scenarios {
    private static final String CONTINUE = "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler";

    @Override
    public void register(Registry r) {
        r.add("several-topics", Inputs.of(150).topic("x").topic("y").topic("z"), b ->
            b.<String, String>stream(List.of("x", "y", "z")).groupByKey()
                .count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));

        // Time comes from the value; where there is none the record is skipped.
        r.stores("extract-time", Inputs.of(200).topic("in", t -> t.nullValues(0.05)), b ->
            b.stream("in", Consumed.<String, String>as("src").withTimestampExtractor((record, before) -> {
                String v = (String) record.value();
                return v == null || v.endsWith("5") ? -1 : 3L * Long.parseLong(v.substring(1));
            }))
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ScenariosTimeWindows.ms(20), ScenariosTimeWindows.ms(5)))
                .count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(ScenariosTimeWindows.windows(20), Serdes.Long())));

        // What is invalid takes the time of its partition.
        r.add("extract-partition-time", Inputs.of(150).topic("in"), b ->
            b.stream("in", Consumed.<String, String>as("src").withTimestampExtractor((record, before) -> {
                String v = (String) record.value();
                return v == null || v.startsWith("p") ? Math.max(before, 0) : record.timestamp();
            })).to("out"));

        r.add("dynamic-sink", Inputs.of(120).topic("in"), b ->
            b.<String, String>stream("in").to(new TopicNameExtractor<String, String>() {
                @Override
                public String extract(String key, String value, RecordContext context) {
                    return value == null ? "nulls" : context.topic() + "-" + value.charAt(0);
                }

                // Descriptions show it.
                @Override
                public String toString() {
                    return "func";
                }
            }));

        Inputs poison = Inputs.of(100).topic("in", t -> t.values((rnd, i) -> rnd.nextInt(5) == 0 ? Inputs.bytes("bad") : Inputs.bytes((long) i)));
        r.add("poison-continue", poison, b ->
            b.stream("in", Consumed.with(Serdes.String(), Serdes.Long())).groupByKey()
                .reduce(Long::sum, Materialized.as("sums"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())),
            Map.of("deserialization.exception.handler", CONTINUE));

        r.add("poison-fail", poison, b ->
            b.stream("in", Consumed.with(Serdes.String(), Serdes.Long())).to("out", Produced.with(Serdes.String(), Serdes.Long())));

        // The same topic read twice is one source.
        r.add("topic-read-twice", Inputs.of(80).topic("in"), b -> {
            b.<String, String>stream("in").mapValues(v -> v + "1").to("out");
            b.<String, String>stream("in").mapValues(v -> v + "2").to("out");
        });
    }
}
