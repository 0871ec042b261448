StreamsBuilder b = new StreamsBuilder();
return b.build();
