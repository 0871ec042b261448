StreamsBuilder b = new StreamsBuilder();
KStream<String,String> s = b.stream("clicks");
KTable<String,String> t = b.table("users", Materialized.as("users-store"));
s.selectKey((k, v) -> v).join(t, (x, y) -> x, Joined.as("enrich")).to("out");
return b.build();
