package io.millrace.conformance;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * Draws the input of a scenario from a seed: records of several topics whose event time moves on in small steps, with
 * records that come late, that share a time, or lie at the borders of a grid (of windows, say) or one millisecond beside
 * them; now and then time jumps.
 */
final class Inputs {
    /** One step of an input: a record, or else the wall clock moves on. */
    record Step(String topic, byte[] key, byte[] value, long timestamp, Headers headers, long advance) {
        boolean isRecord() {
            return topic != null;
        }
    }

    private final int count;
    private final List<Topic> topics = new ArrayList<>();
    private final List<Step> fixed = new ArrayList<>();
    private final List<Step> end = new ArrayList<>();
    private long start = 0;
    private int step = 4;
    private double disorder = 0.25;
    private int back = 20;
    private double ties = 0.15;
    private double onGrid = 0.15;
    private int grid = 10;
    private double jumps = 0.02;
    private int jump = 60;
    private double headers = 0.2;
    private double advances = 0;
    private int advance = 1;
    private boolean apart = false;
    private int times = 1;

    private Inputs(int count) {
        this.count = count;
    }

    /** An input of some number of random steps. */
    static Inputs of(int count) {
        return new Inputs(count);
    }

    /** No input at all. */
    static Inputs none() {
        return new Inputs(0);
    }

    /** A topic of the input, with text for keys and values unless told otherwise. */
    Inputs topic(String name, Consumer<Topic> set) {
        Topic t = new Topic(name);
        set.accept(t);
        topics.add(t);
        return this;
    }

    Inputs topic(String name) {
        return topic(name, t -> { });
    }

    /** The event time at the beginning. The default is 0. */
    Inputs start(long ms) {
        start = ms;
        return this;
    }

    /** Event time moves on by 0 to max from record to record. The default is 4. */
    Inputs step(int max) {
        step = max;
        return this;
    }

    /** A share of the records is up to back behind. The default is 0.25, 20. */
    Inputs disorder(double share, int back) {
        disorder = share;
        this.back = back;
        return this;
    }

    /** A share of the records has the time of the one before. The default is 0.15. */
    Inputs ties(double share) {
        ties = share;
        return this;
    }

    /** A share of the records lies at a multiple of size, or one beside it. The default is 0.15, 10. */
    Inputs grid(double share, int size) {
        onGrid = share;
        grid = size;
        return this;
    }

    /** At a share of the records time has jumped ahead by up to ms. The default is 0.02, 60. */
    Inputs jumps(double share, int ms) {
        jumps = share;
        jump = ms;
        return this;
    }

    /** A share of the records has headers. The default is 0.2. */
    Inputs headers(double share) {
        headers = share;
        return this;
    }

    /** A share of the steps is no record: the wall clock moves on by 1 to max. The default is 0. */
    Inputs advances(double share, int max) {
        advances = share;
        advance = max;
        return this;
    }

    /** No two records have the same time: one that would has the next time that is free. */
    Inputs apart() {
        apart = true;
        return this;
    }

    /** A record that comes before the random ones; null is a null. */
    Inputs first(String topic, String key, String value, long timestamp) {
        fixed.add(new Step(topic, bytes(key), bytes(value), timestamp, new RecordHeaders(), 0));
        return this;
    }

    /** Timestamps of the random records are multiples of this, so that no two of them are apart by anything else. */
    Inputs times(int factor) {
        times = factor;
        return this;
    }

    /** A record that comes after the random ones, some time after the highest timestamp before it. */
    Inputs last(String topic, String key, String value, long after) {
        end.add(new Step(topic, bytes(key), bytes(value), after, new RecordHeaders(), 0));
        return this;
    }

    List<Step> draw(Random r) {
        List<Step> steps = new ArrayList<>(fixed);
        long now = start;
        long highest = 0;
        for (Step s : fixed) {
            highest = Math.max(highest, s.timestamp());
        }
        long before = start;
        Set<Long> taken = new HashSet<>();
        double weights = topics.stream().mapToDouble(t -> t.weight).sum();
        for (int i = 0; i < count; i++) {
            if (r.nextDouble() < advances) {
                steps.add(new Step(null, null, null, 0, null, 1 + r.nextInt(advance)));
                continue;
            }
            if (r.nextDouble() < jumps) {
                now += r.nextInt(jump + 1);
            }
            long ts;
            if (r.nextDouble() < ties) {
                ts = before;
            } else {
                now += r.nextInt(step + 1);
                ts = now;
                if (r.nextDouble() < disorder) {
                    ts -= 1 + r.nextInt(back);
                }
                if (r.nextDouble() < onGrid) {
                    ts = Math.floorDiv(ts, grid) * grid + r.nextInt(3) - 1;
                }
                ts = Math.max(ts, 0);
            }
            while (apart && !taken.add(ts)) {
                ts++;
            }
            now = Math.max(now, ts);
            before = ts;
            highest = Math.max(highest, ts);
            steps.add(pick(r, weights).draw(r, i, ts * times, headers));
        }
        highest *= times;
        for (Step s : end) {
            highest += s.timestamp();
            steps.add(new Step(s.topic(), s.key(), s.value(), highest, new RecordHeaders(), 0));
        }
        return steps;
    }

    private Topic pick(Random r, double weights) {
        double at = r.nextDouble() * weights;
        for (Topic t : topics) {
            at -= t.weight;
            if (at < 0) {
                return t;
            }
        }
        return topics.get(topics.size() - 1);
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] bytes(long n) {
        return ByteBuffer.allocate(8).putLong(n).array();
    }

    /** Draws keys or values; i is the number of the step. */
    interface Draw {
        byte[] at(Random r, int i);
    }

    /** What the records of a topic hold. */
    static final class Topic {
        private final String name;
        private double weight = 1;
        private Draw key = text("a", "b", "c");
        private Draw value = (r, i) -> bytes((char) ('p' + r.nextInt(4)) + Integer.toString(i));
        private double nullKeys = 0.03;
        private double nullValues = 0.1;

        private Topic(String name) {
            this.name = name;
        }

        /** How much of the input is of this topic, beside the others. The default is 1. */
        Topic weight(double w) {
            weight = w;
            return this;
        }

        /** Keys are one of these texts. The default is a, b, c. */
        Topic keys(String... texts) {
            key = text(texts);
            return this;
        }

        Topic keys(Draw d) {
            key = d;
            return this;
        }

        /** Values are one of these texts. The default is a letter of p to s and the number of the step. */
        Topic values(String... texts) {
            value = text(texts);
            return this;
        }

        Topic values(Draw d) {
            value = d;
            return this;
        }

        /** Values are numbers as LongSerializer writes them, from low to high. */
        Topic longs(int low, int high) {
            value = (r, i) -> bytes((long) low + r.nextInt(high - low + 1));
            return this;
        }

        /** The share of records without a key. The default is 0.03. */
        Topic nullKeys(double share) {
            nullKeys = share;
            return this;
        }

        /** The share of records without a value: deletions, for a table. The default is 0.1. */
        Topic nullValues(double share) {
            nullValues = share;
            return this;
        }

        private static Draw text(String... texts) {
            return (r, i) -> bytes(texts[r.nextInt(texts.length)]);
        }

        private Step draw(Random r, int i, long ts, double headers) {
            byte[] k = r.nextDouble() < nullKeys ? null : key.at(r, i);
            byte[] v = r.nextDouble() < nullValues ? null : value.at(r, i);
            RecordHeaders h = new RecordHeaders();
            if (r.nextDouble() < headers) {
                h.add("n", bytes(Integer.toString(i)));
                if (r.nextInt(4) == 0) {
                    h.add("n", bytes("again"));
                    h.add("empty", null);
                }
            }
            return new Step(name, k, v, ts, h, 0);
        }
    }
}
