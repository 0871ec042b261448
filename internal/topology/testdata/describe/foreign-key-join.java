StreamsBuilder b = new StreamsBuilder();
KTable<String,String> l = b.table("orders");
KTable<String,String> r = b.table("customers");
l.join(r, v -> v, (x, y) -> x).toStream().to("out");
return b.build();
