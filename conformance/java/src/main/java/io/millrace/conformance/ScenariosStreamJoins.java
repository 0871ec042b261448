package io.millrace.conformance;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;

/**
 * Joins of two streams. Disorder stays below before, after and grace; unmatched rows come out at the end, by a jump in time,
 * since Java's moment for each depends on which row it looked at last.
 */
final class ScenariosStreamJoins implements Scenarios {
    private static final Serde<String> S = Serdes.String();
    private static final ValueJoiner<String, String, String> PAIR = (l, r) -> l + "/" + r;

    private static Inputs input() {
        return Inputs.of(250)
            .topic("l", t -> t.keys("a", "b", "c").nullKeys(0.04).nullValues(0.06))
            .topic("r", t -> t.keys("a", "b", "c", "d").nullKeys(0.04).nullValues(0.06))
            .grid(0, 10)
            .disorder(0.3, 12);
    }

    private static Inputs single() {
        return Inputs.of(150)
            .topic("l", t -> t.keys("a", "b", "c").nullKeys(0.04).nullValues(0.06))
            .grid(0, 10)
            .disorder(0.3, 12);
    }

    private static Inputs ended() {
        return input().last("l", "end", "x", 1_000_000).last("r", "end2", "y", 1_000_000);
    }

    private static JoinWindows windows(long before, long after, long grace) {
        return JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(after), Duration.ofMillis(grace)).before(Duration.ofMillis(before));
    }

    private static StreamJoined<String, String, String> joined(String name) {
        return StreamJoined.<String, String, String>as(name).withName(name)
            .withKeySerde(S).withValueSerde(S).withOtherValueSerde(S);
    }

    @Override
    public void register(Registry r) {
        r.stores("stream-join-inner", input(), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(b.stream("r"), PAIR, windows(15, 15, 12), joined("j")).to("out");
        });
        r.stores("stream-join-inner-asymmetric", input(), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(b.stream("r"), PAIR, windows(20, 14, 30), joined("j")).to("out");
        });
        r.stores("stream-join-left", ended(), b -> {
            KStream<String, String> l = b.stream("l");
            l.leftJoin(b.stream("r"), PAIR, windows(15, 15, 100_000), joined("j")).to("out");
        });
        r.stores("stream-join-outer", ended(), b -> {
            KStream<String, String> l = b.stream("l");
            l.outerJoin(b.stream("r"), PAIR, windows(13, 25, 100_000), joined("j")).to("out");
        });
        r.stores("stream-join-self", single(), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(l, PAIR, windows(13, 13, 50), joined("j")).to("out");
        });
        r.stores("stream-join-chain", input(), b -> {
            KStream<String, String> l = b.stream("l");
            KStream<String, String> other = b.stream("r");
            l.join(other, PAIR, windows(13, 13, 50), joined("one"))
                .join(other, PAIR, windows(13, 20, 50), joined("two")).to("out");
        });
        r.stores("stream-join-self-one-store", single(), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(l, PAIR, windows(13, 13, 50), joined("j")).to("out");
        }, Map.of("topology.optimization", "single.store.self.join"));
        r.stores("stream-join-self-one-store-asymmetric", single(), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(l, PAIR, windows(20, 14, 50), joined("j")).to("out");
        }, Map.of("topology.optimization", "single.store.self.join"));
        r.stores("stream-join-inner-repartitioned", values(), b ->
            byInitial(b, "l").join(byInitial(b, "r"), PAIR, windows(15, 15, 100), joined("j")).to("out"));
        r.stores("stream-join-left-repartitioned", valuesEnded(), b ->
            byInitial(b, "l").leftJoin(byInitial(b, "r"), PAIR, windows(15, 15, 100_000), joined("j")).to("out"));
        r.stores("stream-join-outer-repartitioned", valuesEnded(), b ->
            byInitial(b, "l").outerJoin(b.stream("r"), PAIR, windows(15, 15, 100_000), joined("j")).to("out"));
        r.stores("stream-join-merged-repartitions", values(), b -> {
            KStream<String, String> l = byInitial(b, "l");
            l.join(b.stream("r"), PAIR, windows(15, 15, 100), joined("j")).to("out");
            l.filter((k, v) -> !v.endsWith("1")).groupByKey(Grouped.with(S, S))
                .count(Named.as("n"), Materialized.as("n")).toStream().to("counts", Produced.with(S, Serdes.Long()));
        }, Map.of("topology.optimization", "merge.repartition.topics"));
        r.stores("stream-join-count-suppress", ended(), b -> {
            KStream<String, String> l = b.stream("l");
            l.join(b.stream("r"), PAIR, windows(15, 15, 50), joined("j"))
                .groupByKey(Grouped.with(S, S)).windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(20), Duration.ofMillis(30)))
                .count(Named.as("n"), Materialized.as("n"))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("s"))
                .toStream((w, n) -> w.key() + "@" + w.window().start()).to("out", Produced.with(S, Serdes.Long()));
        });
    }

    /** Records whose values begin with one of the keys to be. */
    private static Inputs values() {
        return Inputs.of(250)
            .topic("l", t -> t.keys("x", "y").values("a1", "a2", "b1", "c3", "b2").nullKeys(0.04).nullValues(0.06))
            .topic("r", t -> t.keys("a", "b", "c", "d").values("a5", "b6", "d7").nullKeys(0.04).nullValues(0.06))
            .grid(0, 10)
            .disorder(0.3, 12);
    }

    private static Inputs valuesEnded() {
        return values().last("l", "end", "x9", 1_000_000).last("r", "y", "y9", 1_000_000);
    }

    /** A null value has no initial: its record ends here. */
    private static KStream<String, String> byInitial(StreamsBuilder b, String topic) {
        return b.<String, String>stream(topic).filter((k, v) -> v != null).selectKey((k, v) -> v.substring(0, 1));
    }
}
