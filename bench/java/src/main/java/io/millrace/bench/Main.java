package io.millrace.bench;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Runs one scenario with Kafka Streams and tells its progress on standard output, a line "progress RECORDS NANOS" every
 * 50 ms. Arguments are words of the form key=value. It ends when standard input does.
 */
public final class Main {
    private static final long REPORT_EVERY_MS = 50;

    private Main() {
    }

    public static void main(String[] args) throws Exception {
        long start = System.nanoTime();
        Map<String, String> config = new HashMap<>();
        for (String arg : args) {
            int eq = arg.indexOf('=');
            if (eq < 0) {
                throw new IllegalArgumentException("argument " + arg + " is not key=value");
            }
            config.put(arg.substring(0, eq), arg.substring(eq + 1));
        }
        endWithStandardInput();

        LongAdder records = new LongAdder();
        Serde<byte[]> counted = Serdes.serdeFrom(new ByteArraySerializer(), counting(records));
        KafkaStreams streams = new KafkaStreams(Scenarios.topology(config, counted), properties(config));
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setGlobalStateRestoreListener(new Restores());
        streams.start();
        while (true) {
            Thread.sleep(REPORT_EVERY_MS);
            System.out.println("progress " + records.sum() + " " + (System.nanoTime() - start));
        }
    }

    private static Properties properties(Map<String, String> config) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, config.get("app"));
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, config.get("brokers"));
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, config.get("guarantee"));
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, config.get("commit-interval-ms"));
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, config.get("cache-bytes"));
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, config.get("threads"));
        p.put(StreamsConfig.STATE_DIR_CONFIG, config.get("state-dir"));
        if (!config.getOrDefault("instance", "").isEmpty()) {
            p.put(StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), config.get("instance"));
        }
        p.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "none");
        return p;
    }

    /** A deserializer of the input's values that counts: Streams decodes a record when it takes it up. */
    private static Deserializer<byte[]> counting(LongAdder records) {
        ByteArrayDeserializer plain = new ByteArrayDeserializer();
        return (topic, data) -> {
            records.increment();
            return plain.deserialize(topic, data);
        };
    }

    /** Tells of the restores that have ended, all of them together: a line "restored STORES RECORDS NANOS". */
    private static final class Restores implements StateRestoreListener {
        private long began;
        private long records;
        private long stores;

        @Override
        public synchronized void onRestoreStart(TopicPartition log, String store, long start, long end) {
            if (began == 0) {
                began = System.nanoTime();
            }
        }

        @Override
        public void onBatchRestored(TopicPartition log, String store, long end, long n) {
        }

        @Override
        public synchronized void onRestoreEnd(TopicPartition log, String store, long n) {
            stores++;
            records += n;
            System.out.println("restored " + stores + " " + records + " " + (System.nanoTime() - began));
        }
    }

    private static void endWithStandardInput() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException e) {
                e.printStackTrace();
            }
            Runtime.getRuntime().halt(0);
        }, "stdin");
        watch.setDaemon(true);
        watch.start();
    }
}
