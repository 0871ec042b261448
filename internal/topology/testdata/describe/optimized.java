Properties p = new Properties();
p.put("topology.optimization", "all");
StreamsBuilder b = new StreamsBuilder();
KTable<String,String> t = b.table("users", Materialized.as("users-store"));
KStream<String,String> s = b.<String,String>stream("in").selectKey((k, v) -> v);
s.groupByKey().count(Materialized.as("count")).toStream().to("out-count");
s.groupByKey().reduce((x, y) -> y, Materialized.as("reduce")).toStream().to("out-reduce");
s.join(t, (x, y) -> x).to("out-join");
return b.build(p);
