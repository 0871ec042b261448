package codec

import (
	"encoding/hex"
	"math"
	"testing"
)

func TestC066_partitionEqualsJavaClient(t *testing.T) {
	ns := [5]int32{3, 6, 10, 12, 50}
	for _, c := range []struct {
		key   string
		hash  int32
		parts [5]int32
	}{
		{"bus-7", -1422326023, [5]int32{1, 1, 5, 1, 25}},
		{"depot:3", -733265219, [5]int32{0, 3, 9, 9, 29}},
		{"Zürich", -1551140815, [5]int32{1, 1, 3, 1, 33}},
		{"k", -1567496736, [5]int32{2, 2, 2, 8, 12}},
	} {
		if got := int32(Murmur2([]byte(c.key))); got != c.hash {
			t.Errorf("Murmur2(%q) = %d, want %d", c.key, got, c.hash)
		}
		for i, n := range ns {
			if got := Partition([]byte(c.key), n); got != c.parts[i] {
				t.Errorf("Partition(%q, %d) = %d, want %d", c.key, n, got, c.parts[i])
			}
		}
	}
}

// The first six are those of Kafka's own UtilsTest, the rest covers each length of the tail and bytes above 127, where a
// signed byte would go wrong. All were computed by the Java client 4.4.0.
func TestMurmur2_javaVectors(t *testing.T) {
	ns := [8]int32{1, 3, 6, 7, 10, 12, 50, math.MaxInt32}
	for _, c := range []struct {
		key   string // hex
		hash  int32
		parts [8]int32
	}{
		{"3231", -973932308, [8]int32{0, 0, 0, 3, 0, 0, 40, 1173551340}},
		{"666f6f626172", -790332482, [8]int32{0, 0, 0, 0, 6, 6, 16, 1357151166}},
		{"612d6c6974746c652d6269742d6c6f6e672d737472696e67", -985981536, [8]int32{0, 2, 2, 1, 2, 8, 12, 1161502112}},
		{"612d6c6974746c652d6269742d6c6f6e6765722d737472696e67", -1486304829, [8]int32{0, 2, 5, 0, 9, 11, 19, 661178819}},
		{"6c6b6a683233346c68396669756839307932336f697568736166756a6861646f66323239706872396831396838396838", -58897971,
			[8]int32{0, 2, 5, 3, 7, 5, 27, 2088585677}},
		{"616263", 479470107, [8]int32{0, 0, 3, 4, 7, 3, 7, 479470107}},
		{"", 275646681, [8]int32{0, 0, 3, 2, 1, 9, 31, 275646681}},
		{"c9", 1279037197, [8]int32{0, 1, 1, 4, 7, 1, 47, 1279037197}},
		{"cad1", -2129428887, [8]int32{0, 2, 5, 4, 1, 5, 11, 18054761}},
		{"cbd2d9", 1347053650, [8]int32{0, 1, 4, 5, 0, 10, 0, 1347053650}},
		{"ccd3dae1", 218394191, [8]int32{0, 2, 5, 1, 1, 11, 41, 218394191}},
		{"cdd4dbe2e9", 1587604225, [8]int32{0, 1, 1, 4, 5, 1, 25, 1587604225}},
		{"ced5dce3eaf1", 52374921, [8]int32{0, 0, 3, 4, 1, 9, 21, 52374921}},
		{"cfd6dde4ebf2f9", 613372998, [8]int32{0, 0, 0, 0, 8, 6, 48, 613372998}},
		{"d0d7dee5ecf3fa01", 1696523682, [8]int32{0, 0, 0, 0, 2, 6, 32, 1696523682}},
		{"d1d8dfe6edf4fb0209", 1333299414, [8]int32{0, 0, 0, 6, 4, 6, 14, 1333299414}},
	} {
		key := unhex(t, c.key)
		if got := int32(Murmur2(key)); got != c.hash {
			t.Errorf("Murmur2(%s) = %d, want %d", c.key, got, c.hash)
		}
		for i, n := range ns {
			if got := Partition(key, n); got != c.parts[i] {
				t.Errorf("Partition(%s, %d) = %d, want %d", c.key, n, got, c.parts[i])
			}
		}
	}
}

func TestPartition_ofNoPartitions(t *testing.T) {
	for _, n := range []int32{0, -1} {
		if got := Partition([]byte("k"), n); got != -1 {
			t.Errorf("Partition(k, %d) = %d, want -1", n, got)
		}
	}
}

func TestPartition_doesNotAllocate(t *testing.T) {
	key := []byte("a-little-bit-longer-string")
	if n := testing.AllocsPerRun(100, func() { Partition(key, 12) }); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func BenchmarkMurmur2(b *testing.B) {
	key := []byte("customer-0042")
	for b.Loop() {
		Murmur2(key)
	}
}
