package kgoclient

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compression maps a value of Kafka's compression.type.
func compression(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "", "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "none":
		return kgo.NoCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("millrace: compression.type %q is not one of snappy, lz4, zstd, gzip, none", name)
}
