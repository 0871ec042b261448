Topology t = new Topology();
t.addSource("s1", "t1");
t.addSource("s2", "t2");
t.addSource("s3", Pattern.compile("t3.*"));
t.addProcessor("p1", Pass::new, "s1");
t.addProcessor("p2", Pass::new, "s2");
t.addProcessor("p3", Pass::new, "s3");
t.addSink("k1", "o1", "p1");
t.addSink("k2", "o2", "p2");
t.addSink("k3", new Everywhere(), "p3", "s3");
t.addStateStore(kv("shared"), "p1", "p3");
t.addStateStore(kv("alone"), "p2");
t.addGlobalStore(kv("everywhere").withLoggingDisabled(), "gs", new StringDeserializer(), new StringDeserializer(), "gt", "gp",
    () -> new Processor<String,String,Void,Void>() { public void process(org.apache.kafka.streams.processor.api.Record<String,String> r) {} });
t.addSource("s4", "t4", "t5");
return t;
