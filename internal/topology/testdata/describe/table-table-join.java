StreamsBuilder b = new StreamsBuilder();
KTable<String,String> l = b.table("left");
KTable<String,String> r = b.table("right");
l.outerJoin(r, (x, y) -> x, Materialized.as("joined")).filter((k, v) -> true).toStream().to("out");
return b.build();
