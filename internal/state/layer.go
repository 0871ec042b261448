package state

import "math"

// noObserved is the observed start of a layer in which no row was put.
const noObserved = math.MinInt64

// metaValue is one number of a store's metadata in a layer.
type metaValue struct {
	v       int64
	deleted bool
}

// layer is what one store has in one of its layers. Its tables are made when they are first needed: most tasks of a large
// assignment are idle most of the time.
type layer struct {
	points   *points
	rows     *rows
	metas    map[string]metaValue
	observed int64 // highest time put, noObserved if none
}

func newLayer() *layer { return &layer{observed: noObserved} }

func (l *layer) isEmpty() bool {
	return l.points.len() == 0 && (l.rows == nil || l.rows.count == 0) && len(l.metas) == 0 && l.observed == noObserved
}

const metaOverhead = 64

func (l *layer) size() int64 {
	return l.points.size() + l.rows.size() + int64(len(l.metas))*metaOverhead
}

func (l *layer) setMeta(key string, v metaValue) {
	if l.metas == nil {
		l.metas = make(map[string]metaValue)
	}
	l.metas[key] = v
}

// merge puts a newer layer on top of this one. The newer one must not be used afterwards: its tables may have become this
// layer's.
func (l *layer) merge(newer *layer, minSeg int64) {
	l.observed = max(l.observed, newer.observed)
	for k, v := range newer.metas {
		l.setMeta(k, v)
	}
	if newer.points.len() > 0 {
		if l.points.len() == 0 {
			l.points = newer.points
		} else {
			newer.points.each(l.points.adopt)
			l.points.bytes += newer.points.arena.held + newer.points.bytes
		}
	}
	l.rows.dropBelow(minSeg) // the newer layer has dropped what is expired by itself
	if newer.rows != nil && newer.rows.count > 0 {
		if l.rows == nil || l.rows.count == 0 {
			l.rows = newer.rows
		} else {
			newer.rows.each(l.rows.adopt)
			l.rows.bytes += newer.rows.arena.held + newer.rows.bytes
		}
	}
}
