StreamsBuilder b = new StreamsBuilder();
KTable<String,String> t = b.<String,String>stream("in").map(KeyValue::new).toTable(Materialized.as("latest"));
t.groupBy((k, v) -> KeyValue.pair(v, v)).reduce((x, y) -> x, (x, y) -> y).toStream().to("out");
return b.build();
