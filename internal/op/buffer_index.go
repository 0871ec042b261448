package op

// bufferedRow is one row of a buffer as its index knows it: when its time is, and its key in the store.
type bufferedRow struct {
	timeMs int64
	key    string
}

func (w bufferedRow) before(o bufferedRow) bool {
	if w.timeMs != o.timeMs {
		return w.timeMs < o.timeMs
	}
	return w.key < o.key
}

// bufferIndex holds the rows of a buffer as a binary heap: the least time first, of equal ones the least key by its bytes.
// A row leaves only from the front, so a heap is all it takes.
type bufferIndex []bufferedRow

func (h *bufferIndex) push(w bufferedRow) {
	*h = append(*h, w)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !s[i].before(s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// pop takes the first row out.
func (h *bufferIndex) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	s[last] = bufferedRow{}
	s = s[:last]
	*h = s
	s.down(0)
	if cap(s) > 1024 && last < cap(s)/4 {
		*h = append(make(bufferIndex, 0, cap(s)/2), s...)
	}
}

// order makes a heap of rows in any order.
func (h bufferIndex) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// down moves a row towards the end until none behind it comes before it.
func (h bufferIndex) down(i int) {
	for {
		least, left, right := i, 2*i+1, 2*i+2
		if left < len(h) && h[left].before(h[least]) {
			least = left
		}
		if right < len(h) && h[right].before(h[least]) {
			least = right
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
