package io.millrace.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/** All scenarios, by name. */
final class Registry {
    private static final String IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers";

    private final Map<String, Scenario> scenarios = new TreeMap<>();

    /** Registers what the classes Scenarios* beside this one have. */
    static Registry load() throws ReflectiveOperationException {
        Registry r = new Registry();
        for (String name : featureClasses()) {
            Class<?> c = Class.forName(Registry.class.getPackageName() + "." + name);
            if (Scenarios.class.isAssignableFrom(c) && !c.isInterface()) {
                ((Scenarios) c.getDeclaredConstructor().newInstance()).register(r);
            }
        }
        return r;
    }

    private static List<String> featureClasses() {
        try {
            Path root = Path.of(Registry.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            Path dir = root.resolve(Registry.class.getPackageName().replace('.', '/'));
            List<String> names = new ArrayList<>();
            try (Stream<Path> files = Files.list(dir)) {
                files.map(f -> f.getFileName().toString())
                    .filter(f -> f.startsWith("Scenarios") && f.endsWith(".class") && !f.contains("$"))
                    .map(f -> f.substring(0, f.length() - ".class".length()))
                    .sorted()
                    .forEach(names::add);
            }
            return names;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A scenario with the stores of RocksDB. */
    void add(String name, Inputs inputs, Consumer<StreamsBuilder> declare) {
        add(name, inputs, declare, Map.of());
    }

    /** A scenario with settings of its own. */
    void add(String name, Inputs inputs, Consumer<StreamsBuilder> declare, Map<String, String> config) {
        put(new Scenario(name, name, inputs, build(declare), config));
    }

    /** Two scenarios with the same input: NAME with the stores of RocksDB, NAME-memory with those in memory. */
    void stores(String name, Inputs inputs, Consumer<StreamsBuilder> declare) {
        stores(name, inputs, declare, Map.of());
    }

    void stores(String name, Inputs inputs, Consumer<StreamsBuilder> declare, Map<String, String> config) {
        put(new Scenario(name, name, inputs, build(declare), config));
        Map<String, String> memory = new HashMap<>(config);
        memory.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, IN_MEMORY);
        put(new Scenario(name + "-memory", name, inputs, build(declare), memory));
    }

    /** A topology of which description and internal topics alone are compared. */
    void describe(String name, Consumer<StreamsBuilder> declare) {
        describe(name, declare, Map.of());
    }

    void describe(String name, Consumer<StreamsBuilder> declare, Map<String, String> config) {
        add(name, Inputs.none(), declare, config);
    }

    /** A scenario of which the program is more than what a StreamsBuilder has. */
    void program(String name, Inputs inputs, Scenario.Program program, Map<String, String> config) {
        put(new Scenario(name, name, inputs, program, config));
    }

    private static Scenario.Program build(Consumer<StreamsBuilder> declare) {
        return config -> {
            StreamsBuilder b = new StreamsBuilder();
            declare.accept(b);
            return b.build(config);
        };
    }

    private void put(Scenario s) {
        if (!s.name().matches("[a-z0-9-]+")) {
            throw new IllegalArgumentException("scenario " + s.name() + ": a name has the characters a-z, 0-9 and -");
        }
        if (scenarios.putIfAbsent(s.name(), s) != null) {
            throw new IllegalArgumentException("there are two scenarios " + s.name());
        }
    }

    Collection<Scenario> all() {
        return scenarios.values();
    }

    Scenario get(String name) {
        return scenarios.get(name);
    }
}
