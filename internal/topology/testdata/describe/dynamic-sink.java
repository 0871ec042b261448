StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream("in").to(new Everywhere());
return b.build();
