//go:build !unix

package kafkatest

import (
	"errors"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func terminate(*exec.Cmd) error { return errors.ErrUnsupported }
