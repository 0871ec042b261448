package codec

// Murmur2 is the 32-bit MurmurHash2 of Kafka's Java client, with its seed. The Java method returns the same bits as a
// signed number.
//
// In Kafka: org.apache.kafka.common.utils.Utils.murmur2.
func Murmur2(b []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(b))
	for len(b) >= 4 {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
		b = b[4:]
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}

// Partition returns the partition, out of n, that Kafka's default partitioner chooses for a key that is not null. The
// sign bit is masked off before the division: that is not the absolute value, and both sides of a join must agree on it.
// It returns -1, no partition, if n is not positive.
//
// In Kafka: org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey.
func Partition(key []byte, n int32) int32 {
	if n <= 0 {
		return -1
	}
	return int32(Murmur2(key)&0x7fffffff) % n
}
