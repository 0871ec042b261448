StreamsBuilder b = new StreamsBuilder();
KStream<String,String> s = b.stream("clicks");
KTable<String,String> t = b.table("users");
s.leftJoin(t, (x, y) -> x).to("out");
return b.build();
