StreamsBuilder b = new StreamsBuilder();
KStream<String,String> l = b.stream("left");
KStream<String,String> r = b.stream("right");
l.selectKey((k, v) -> v).outerJoin(r.map(KeyValue::new), (x, y) -> x,
    JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)),
    StreamJoined.<String,String,String>as("js").withName("j")).to("out");
return b.build();
