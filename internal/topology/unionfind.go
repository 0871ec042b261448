package topology

// unionFind keeps sets of the numbers 0..n-1.
type unionFind []int

func newUnionFind(n int) unionFind {
	u := make(unionFind, n)
	for i := range u {
		u[i] = i
	}
	return u
}

// root returns the number that stands for i's set, shortening the path on its way.
func (u unionFind) root(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

func (u unionFind) unite(a, b int) { u[u.root(a)] = u.root(b) }
