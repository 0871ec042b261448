o("all-self-join-flagged-named","all",b->{ KStream<String,String> x=st(b,"a").selectKey((k,v)->v); x.join(x,J,W,sj().withName("n")).to("o"); });
o("all-self-join-flagged","all",b->{ KStream<String,String> x=st(b,"a").selectKey((k,v)->v); x.join(x,J,W,sj()).to("o"); x.groupByKey(G()).count(Materialized.as("n")); });
o("merge-with-table-source","all",b->{ KTable<String,String> x=b.table("t",Materialized.as("tt")); KStream<String,String> s=st(b,"a").selectKey((k,v)->v); s.join(x,J,Joined.with(S,S,S)).to("o"); s.join(x,J,Joined.with(S,S,S,"jj")).to("p"); });
