StreamsBuilder b = new StreamsBuilder();
KStream<String,String> l = b.stream("left");
KStream<String,String> r = b.stream("right");
l.leftJoin(r, (x, y) -> x, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(10))).to("out");
return b.build();
