package serde

import "errors"

// Func returns a serde of two functions. They keep the rules of [Serde]: appendTo appends to dst and returns the longer
// slice; decode reads all of src and keeps no part of it; both are called by several goroutines at once.
//
//	var Celsius = serde.Func(
//		func(dst []byte, v Temp) ([]byte, error) { return strconv.AppendFloat(dst, float64(v), 'f', 1, 64), nil },
//		func(src []byte) (Temp, error) { f, err := strconv.ParseFloat(string(src), 64); return Temp(f), err })
//
// In Kafka: Serdes.serdeFrom.
func Func[T any](appendTo func(dst []byte, v T) ([]byte, error), decode func(src []byte) (T, error)) Serde[T] {
	if appendTo == nil || decode == nil {
		return broken[T]{errors.New("serde: Func needs two functions, one of them is nil")}
	}
	return funcSerde[T]{appendTo, decode}
}

type funcSerde[T any] struct {
	appendTo func(dst []byte, v T) ([]byte, error)
	decode   func(src []byte) (T, error)
}

func (s funcSerde[T]) Append(dst []byte, v T) ([]byte, error) { return s.appendTo(dst, v) }

func (s funcSerde[T]) Decode(src []byte) (T, error) { return s.decode(src) }
