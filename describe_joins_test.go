package millrace_test

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/window"
)

var tenMsApart = window.Within(10 * time.Millisecond)

func firstOfEither(a string, _ bool, _ string, _ bool) string { return a }

// The three joins of two streams, without their late records.
func innerJoined(l, r text, opts ...millrace.StepOption) text {
	s, _ := millrace.JoinStreams(l, r, tenMsApart, first, opts...)
	return s
}

func leftJoined(l, r text, opts ...millrace.StepOption) text {
	s, _ := millrace.LeftJoinStreams(l, r, tenMsApart, firstOf, opts...)
	return s
}

func outerJoined(l, r text, opts ...millrace.StepOption) text {
	s, _ := millrace.OuterJoinStreams(l, r, tenMsApart, firstOfEither, opts...)
	return s
}

var describedStreamJoins = map[string]func(*millrace.Builder){
	"join-streams":       func(b *millrace.Builder) { to(innerJoined(from(b, "a"), from(b, "c"), auto), "o") },
	"left-join-streams":  func(b *millrace.Builder) { to(leftJoined(from(b, "a"), from(b, "c"), auto), "o") },
	"outer-join-streams": func(b *millrace.Builder) { to(outerJoined(from(b, "a"), from(b, "c"), auto), "o") },
	"join-streams-named": func(b *millrace.Builder) {
		to(innerJoined(from(b, "a"), from(b, "c"), millrace.As("j")), "o")
	},
	"left-join-streams-named": func(b *millrace.Builder) {
		to(leftJoined(from(b, "a"), from(b, "c"), millrace.As("j")), "o")
	},
	"outer-join-streams-named": func(b *millrace.Builder) {
		to(outerJoined(from(b, "a"), from(b, "c"), millrace.As("j")), "o")
	},
	"outer-join-streams-store-named": func(b *millrace.Builder) {
		to(outerJoined(from(b, "a"), from(b, "c"), millrace.StoreName("js")), "o")
	},
	"left-join-streams-store-named": func(b *millrace.Builder) {
		to(leftJoined(from(b, "a"), from(b, "c"), millrace.StoreName("js")), "o")
	},
	"outer-join-streams-node-named": func(b *millrace.Builder) {
		to(outerJoined(from(b, "a"), from(b, "c"), millrace.NodeName("n"), auto), "o")
	},
	"join-streams-in-memory": func(b *millrace.Builder) {
		to(leftJoined(from(b, "a"), from(b, "c"), millrace.InMemory(), auto), "o")
	},
	"join-streams-flagged": func(b *millrace.Builder) {
		l := selectValue(from(b, "a"))
		to(innerJoined(l, selectValue(from(b, "c")), auto, textKey), "o")
	},
	"join-streams-flagged-named": func(b *millrace.Builder) {
		l := selectValue(from(b, "a"))
		to(innerJoined(l, selectValue(from(b, "c")), millrace.As("j"), textKey), "o")
	},
	"join-streams-right-flagged": func(b *millrace.Builder) {
		l := from(b, "a")
		to(outerJoined(l, selectValue(from(b, "c")), auto, textKey), "o")
	},
	"two-stream-joins-share-topics": func(b *millrace.Builder) {
		l := selectValue(from(b, "a"))
		r := selectValue(from(b, "c"))
		to(innerJoined(l, r, auto, textKey), "o")
		to(leftJoined(l, r, auto, textKey), "o2")
		to(innerJoined(l, from(b, "e"), millrace.As("j"), textKey), "o3")
	},
	"stream-join-then-count": func(b *millrace.Builder) {
		j := innerJoined(from(b, "a"), from(b, "c"), auto)
		to(millrace.Count(j.GroupByKey(textValue), millrace.StoreName("n")).ToStream(), "o")
	},
	"self-join": func(b *millrace.Builder) {
		s := from(b, "a")
		to(innerJoined(s, s, auto), "o")
	},
	"self-join-flagged": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		to(innerJoined(s, s, auto, textKey), "o")
	},
	"self-join-two-streams": func(b *millrace.Builder) {
		to(innerJoined(from(b, "a"), from(b, "a"), auto), "o")
	},
	"multi-join-streams": func(b *millrace.Builder) {
		l, r := from(b, "a"), from(b, "c")
		to(innerJoined(innerJoined(l, r, auto), r, auto, textValue), "o")
	},
	"multi-left-outer-join-streams": func(b *millrace.Builder) {
		l, r := from(b, "a"), from(b, "c")
		to(outerJoined(leftJoined(l, r, auto), r, auto, textValue), "o")
	},
	"stream-join-and-table-join": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("tt"))
		l := joinedWith(from(b, "a"), t)
		to(outerJoined(l, from(b, "c"), millrace.As("j"), textValue), "o")
	},
}
