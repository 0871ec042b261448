package io.millrace.conformance;

/**
 * The scenarios of one feature. Each class of this package whose name begins with Scenarios and which implements this
 * interface is found by itself; it needs a constructor without arguments.
 */
interface Scenarios {
    void register(Registry r);
}
