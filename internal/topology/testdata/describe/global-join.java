StreamsBuilder b = new StreamsBuilder();
KStream<String,String> s = b.stream("clicks");
GlobalKTable<String,String> g = b.globalTable("countries", Materialized.as("countries-store"));
s.join(g, (k, v) -> v, (x, y) -> x).to("out");
return b.build();
