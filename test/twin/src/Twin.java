package io.millrace.twin;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * An application whose twin is written with millrace: a sum behind a repartition, a count in windows with grace, and a join
 * of a stream with a table. It answers each line on its standard input with how it is, and drains on SIGTERM.
 *
 * Arguments: the names of the topics (in, rows, sums, windows, joined), then settings as name=value.
 */
public final class Twin {
    private static final Duration SIZE = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofSeconds(5);

    private Twin() {
    }

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        for (int i = 5; i < args.length; i++) {
            int at = args[i].indexOf('=');
            settings.put(args[i].substring(0, at), args[i].substring(at + 1));
        }
        KafkaStreams streams = new KafkaStreams(topology(args[0], args[1], args[2], args[3], args[4]).build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean closed = streams.close(Duration.ofSeconds(30));
            Runtime.getRuntime().halt(closed ? 0 : 1);
        }));
        streams.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        while (lines.readLine() != null) {
            System.out.println(status(streams));
        }
        // The parent holds the other end, and is gone: a child never outlives it.
        Runtime.getRuntime().halt(3);
    }

    private static StreamsBuilder topology(String in, String rows, String sums, String windows, String joined) {
        StreamsBuilder b = new StreamsBuilder();
        KStream<String, Long> values = b.stream(in, Consumed.with(Serdes.String(), Serdes.Long()));
        KTable<String, String> table = b.table(rows, Consumed.with(Serdes.String(), Serdes.String()), Materialized.as("rows"));
        values.join(table, (v, row) -> row + "*" + v, Joined.with(Serdes.String(), Serdes.Long(), Serdes.String()))
            .to(joined, Produced.with(Serdes.String(), Serdes.String()));
        values.groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
            .count(Materialized.as("windows"))
            .toStream()
            .to(windows, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, SIZE.toMillis()), Serdes.Long()));
        values.groupBy((k, v) -> "of-" + k, Grouped.with("by-owner", Serdes.String(), Serdes.Long()))
            .aggregate(() -> 0L, (k, v, sum) -> sum + v,
                Materialized.<String, Long, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("sums")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .to(sums, Produced.with(Serdes.String(), Serdes.Long()));
        return b;
    }

    private static String status(KafkaStreams streams) {
        int tasks = streams.metadataForLocalThreads().stream().mapToInt(t -> t.activeTasks().size()).sum();
        int ready = streams.state() == KafkaStreams.State.RUNNING ? tasks : 0;
        return String.format("{\"State\":\"%s\",\"Tasks\":%d,\"Ready\":%d}", streams.state(), tasks, ready);
    }
}
