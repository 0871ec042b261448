StreamsBuilder b = new StreamsBuilder();
b.addStateStore(kv("seen"));
b.addStateStore(kv("last"));
KStream<String,String> x = b.<String,String>stream("a").process(Pass::new, Named.as("dedup"), "seen", "last");
b.<String,String>stream("b").processValues(PassValue::new, "last").to("b-out");
x.to("a-out");
return b.build();
