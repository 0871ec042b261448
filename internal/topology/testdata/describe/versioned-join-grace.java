StreamsBuilder b = new StreamsBuilder();
KTable<String,String> t = b.table("users", Materialized.<String,String>as(Stores.persistentVersionedKeyValueStore("ver", Duration.ofHours(2))));
b.<String,String>stream("in").join(t, (x, y) -> x,
    Joined.<String,String,String>as("late").withGracePeriod(Duration.ofMinutes(1))).to("out");
return b.build();
