StreamsBuilder b = new StreamsBuilder();
b.globalTable("g1", Materialized.as("g1-store"));
b.<String,String>stream("a").to("a-out");
b.globalTable("g2");
b.globalTable("g3", Materialized.as("g3-store"));
b.<String,String>stream("b").groupBy((k, v) -> v).count().toStream().to("b-out");
b.globalTable("g4", Materialized.as("g4-store"));
return b.build();
