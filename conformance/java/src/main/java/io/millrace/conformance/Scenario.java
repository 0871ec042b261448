package io.millrace.conformance;

import java.util.Map;
import java.util.Properties;
import org.apache.kafka.streams.Topology;

/**
 * A program with the input that it is run on.
 *
 * @param name    its name, which is that of its twin in Go
 * @param input   the name that its random input is drawn for: scenarios that share it get the same input
 * @param inputs  how the input is drawn
 * @param program builds the topology, given the settings
 * @param config  settings beside those of all scenarios
 */
record Scenario(String name, String input, Inputs inputs, Program program, Map<String, String> config) {
    /** Builds a topology. */
    interface Program {
        Topology build(Properties config);
    }
}
