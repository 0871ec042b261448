package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/serde"
)

// foreignKey is the foreign key of a row; ok false: the row has none, or is none.
type foreignKey[KF any] struct {
	key KF
	enc []byte
	ok  bool
}

// foreignKeys finds and encodes the foreign keys of left rows.
type foreignKeys[K, V, KF any] struct {
	of    func(k K, v V) (key KF, ok bool, err error)
	serde serde.Serde[KF]
	isNil func(*KF) bool // nil: no key is
}

// newForeignKeys binds the serde to the topic that the keys are encoded for.
func newForeignKeys[K, V, KF any](of func(K, V) (KF, bool, error), s serde.Serde[KF], topic string) (f foreignKeys[K, V, KF], err error) {
	f.of, f.isNil = of, nilness.Checker[KF]()
	f.serde, err = bind(s, topic, true)
	return f, err
}

// find writes the foreign key of a row into f. A nil one is none.
func (x *foreignKeys[K, V, KF]) find(f *foreignKey[KF], k K, v V) (err error) {
	if f.key, f.ok, err = x.of(k, v); err != nil {
		return err
	}
	f.ok = f.ok && (x.isNil == nil || !x.isNil(&f.key))
	if !f.ok {
		return nil
	}
	if f.enc, err = x.serde.Append(f.enc[:0], f.key); err != nil {
		return fmt.Errorf("the foreign key %v of the row with key %v does not encode: %w", f.key, k, err)
	}
	return nil
}
