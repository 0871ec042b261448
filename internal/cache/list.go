package cache

// link is an entry's place in one list. Lists are intrusive: an entry costs one allocation in all.
type link[K, V, C any] struct {
	prev, next *entry[K, V, C]
}

type list[K, V, C any] struct {
	front, back *entry[K, V, C]
	of          func(*entry[K, V, C]) *link[K, V, C]
}

func (l *list[K, V, C]) pushFront(e *entry[K, V, C]) {
	k := l.of(e)
	k.prev, k.next = nil, l.front
	if l.front != nil {
		l.of(l.front).prev = e
	} else {
		l.back = e
	}
	l.front = e
}

func (l *list[K, V, C]) pushBack(e *entry[K, V, C]) {
	k := l.of(e)
	k.prev, k.next = l.back, nil
	if l.back != nil {
		l.of(l.back).next = e
	} else {
		l.front = e
	}
	l.back = e
}

func (l *list[K, V, C]) remove(e *entry[K, V, C]) {
	k := l.of(e)
	if k.prev != nil {
		l.of(k.prev).next = k.next
	} else {
		l.front = k.next
	}
	if k.next != nil {
		l.of(k.next).prev = k.prev
	} else {
		l.back = k.prev
	}
	k.prev, k.next = nil, nil
}

func (l *list[K, V, C]) moveToFront(e *entry[K, V, C]) {
	if l.front != e {
		l.remove(e)
		l.pushFront(e)
	}
}

func (l *list[K, V, C]) clear() { l.front, l.back = nil, nil }
