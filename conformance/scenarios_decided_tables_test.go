package conformance

import (
	"slices"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// DecidedTables is what is decided not to be as in Kafka Streams about joins of tables.
func (features) DecidedTables(r *registry) {
	r.differs("join-with-derived", "C048", func(b *millrace.Builder) {
		ownDerived(b).ToStream().To(texts("out"))
	}, func(input []step) map[string][]record {
		var all []record
		for _, s := range sentOfDerived(input) {
			all = append(all, out(s.step, s.key, s.is, s.tsMs))
		}
		return map[string][]record{"out": all}
	})
	r.differs("join-with-derived-grouped", "C048", func(b *millrace.Builder) {
		history(group(ownDerived(b), func(_, v string) (string, string) { return "all", v }, millrace.RepartitionName("g")), onDisk, "history").
			ToStream().To(texts("out"))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": historyOf(sentOfDerived(input))}
	})
	r.differs("join-with-right-again", "C048", func(b *millrace.Builder) {
		l, right := rows(b, onDisk, "l"), rows(b, onDisk, "r")
		one := millrace.JoinTables(l, right, slash, millrace.NodeName("one"))
		millrace.JoinTables(one, right, slash, millrace.NodeName("two")).ToStream().To(texts("out"))
	}, func(input []step) map[string][]record { return map[string][]record{"out": joinedTwice(input)} })

	r.differs("foreign-key-empty-value", "whose encoded value has no bytes", func(b *millrace.Builder) {
		l, right := rows(b, onDisk, "l"), rows(b, onDisk, "r")
		millrace.LeftJoinForeignKey(l, right, foreign, leftSlash, millrace.NodeName("fj")).ToStream().To(texts("out"))
	}, func(input []step) map[string][]record { return map[string][]record{"out": joinedByForeignKey(input)} })

	// Both sides of a foreign-key join change several times before the first answer is back. Ticks tell what is in the result.
	together := func(name, rule string) {
		r.differs(name, rule, func(b *millrace.Builder) {
			changes := millrace.FlatMap(millrace.From(b, texts("in")), func(_, v string, emit func(k string, v text)) {
				for change := range strings.SplitSeq(v, ",") {
					key, value, _ := strings.Cut(change, "=")
					if value == "" {
						emit(key, nil)
					} else {
						emit(key, &value)
					}
				}
			}, millrace.As("changes"))
			table := func(name, letter string) millrace.Table[string, text] {
				return changes.Filter(func(k string, _ text) bool { return strings.HasPrefix(k, letter) }, millrace.As(name+"-changes")).
					ToTable(millrace.As(name), millrace.WithKey(serde.String), millrace.WithValue(nullText))
			}
			l, right := table("left", "p"), table("right", "d")
			joined := millrace.JoinForeignKey(l, right, func(_ string, v text) (string, bool) { return foreign("", *v) },
				func(x, y text) string { return *x + "/" + *y }, millrace.As("fj"), millrace.WithValue(serde.String))
			millrace.LeftJoinTable(millrace.From(b, texts("tick")), joined, leftSlash, millrace.As("told")).To(texts("out"))
		}, func(input []step) map[string][]record { return map[string][]record{"out": toldByTicks(input)} })
	}
	together("foreign-key-lost-before-the-answer", "loses its foreign key, and is changed again")
	together("foreign-key-right-row-gone", "while the news that the right row is gone is under way")
}

func ownDerived(b *millrace.Builder) millrace.Table[string, string] {
	t := millrace.TableFrom(b, texts("in"), millrace.StoreName("rows"))
	return millrace.JoinTables(millrace.MapTableValues(t, withoutP), t, func(x text, y string) string { return *x + "/" + y }, millrace.NodeName("j"))
}

// withoutP is a table's values without those that begin with p.
func withoutP(v string) text {
	if v[0] == 'p' {
		return nil
	}
	return &v
}

// sent is an update of a table, with what stood before it.
type sent struct {
	step         int
	key, was, is []byte
	tsMs         int64
}

// sentOfDerived is what a row has in both tables, once for each of them. A row that is not in the derived one is sent as a
// deletion, as Kafka Streams does too, and one that has left both if there was a result.
func sentOfDerived(input []step) (all []sent) {
	joined := make(map[string][]byte)
	for i, in := range input {
		if in.key == nil {
			continue
		}
		hidden := in.value != nil && in.value[0] == 'p'
		was := joined[string(in.key)]
		switch {
		case in.value != nil && !hidden:
			both := slices.Concat(in.value, []byte("/"), in.value)
			joined[string(in.key)] = both
			all = append(all, sent{i, in.key, was, both, in.tsMs}, sent{i, in.key, both, both, in.tsMs})
		case hidden || was != nil:
			delete(joined, string(in.key))
			all = append(all, sent{i, in.key, was, nil, in.tsMs})
		}
	}
	return all
}

// historyOf puts all rows into one group, which tells what was taken out of it and what was put in.
func historyOf(updates []sent) (all []record) {
	text, latest := "", int64(-1)
	for _, s := range updates {
		if s.was == nil && s.is == nil {
			continue
		}
		if s.was != nil {
			text = minus(text, string(s.was))
		}
		if s.is != nil {
			text = plus(text, string(s.is))
		}
		latest = max(latest, s.tsMs)
		all = append(all, out(s.step, []byte("all"), []byte(text), latest))
	}
	return all
}

// joinedTwice is (l JOIN r) JOIN r: a change of r is sent twice, for it comes in on both sides; a deletion once.
func joinedTwice(input []step) (all []record) {
	type row struct {
		value []byte
		tsMs  int64
	}
	tables := map[string]map[string]row{"l": {}, "r": {}}
	for i, in := range input {
		if in.key == nil {
			continue
		}
		other := tables["r"]
		if in.topic == "r" {
			other = tables["l"]
		}
		key := string(in.key)
		o, there := other[key]
		_, had := tables[in.topic][key]
		delete(tables[in.topic], key)
		ts := max(in.tsMs, o.tsMs)
		switch {
		case in.value != nil:
			tables[in.topic][key] = row{in.value, in.tsMs}
			switch {
			case there && in.topic == "l":
				all = append(all, out(i, in.key, slices.Concat(in.value, []byte("/"), o.value, []byte("/"), o.value), ts))
			case there:
				joined := slices.Concat(o.value, []byte("/"), in.value, []byte("/"), in.value)
				all = append(all, out(i, in.key, joined, ts), out(i, in.key, joined, ts))
			}
		case there && (in.topic == "l" || had):
			all = append(all, out(i, in.key, nil, ts))
		}
	}
	return all
}

// joinedByForeignKey is the left join of l with the rows of r that they refer to; nothing is ever deleted. A change of r is sent
// with its own timestamp, as in Kafka Streams, one of l with the higher one of both rows.
func joinedByForeignKey(input []step) (all []record) {
	rows := map[string]map[string]record{"l": {}, "r": {}}
	join := func(i int, l record, tsMs int64) {
		to, _ := foreign("", string(l.value))
		r, ok := rows["r"][to]
		all = append(all, out(i, l.key, []byte(string(l.value)+"/"+orNull(string(r.value), ok)), max(tsMs, r.tsMs)))
	}
	for i, in := range input {
		if in.key == nil {
			continue
		}
		rows[in.topic][string(in.key)] = in.record
		if in.topic == "l" {
			join(i, in.record, in.tsMs)
			continue
		}
		var keys []string
		for k, l := range rows["l"] {
			if to, _ := foreign("", string(l.value)); to == string(in.key) {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			join(i, rows["l"][k], in.tsMs)
		}
	}
	return all
}

// toldByTicks looks up in the rows of p joined with those of d as they are when all of a record is done.
func toldByTicks(input []step) (all []record) {
	rows := make(map[string]string)
	for i, in := range input {
		switch {
		case in.value == nil:
		case in.topic == "in":
			for change := range strings.SplitSeq(string(in.value), ",") {
				key, value, _ := strings.Cut(change, "=")
				if rows[key] = value; value == "" {
					delete(rows, key)
				}
			}
		default:
			l, ok := rows[string(in.key)]
			to, refers := foreign("", l)
			r, there := rows[to]
			all = append(all, out(i, in.key, []byte(leftSlash(string(in.value), l+"/"+r, ok && refers && there)), in.tsMs))
		}
	}
	return all
}
