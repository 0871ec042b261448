d("reuse-table", b->{ KTable<String,String> t=b.table("t",Materialized.as("rows")); st(b,"s").leftJoin(t,J).to("out"); });
d("reuse-table-numbered", b->{ KTable<String,String> t=b.table("t"); st(b,"s").leftJoin(t,J).to("out"); });
d("reuse-table-not-kept", b->{ b.<String,String>table("t").toStream().to("out"); });
d("reuse-table-filtered", b->{ KTable<String,String> t=b.<String,String>table("t").filter((k,v)->true,Materialized.as("kept")); st(b,"s").leftJoin(t,J).to("out"); });
d("reuse-versioned-table", b->{ KTable<String,String> t=b.table("t",ver("v")); st(b,"s").leftJoin(t,J).to("out"); });
d("reuse-tables-joined", b->{ KTable<String,String> l=b.table("l"), r=b.table("r"); l.join(r,J).toStream().to("out"); });
d("reuse-to-table", b->{ st(b,"in").toTable(Materialized.as("rows")).toStream().to("out"); });
