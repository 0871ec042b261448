package config

import (
	"encoding/hex"
	"fmt"
)

func sprintf(format string, v any) string { return fmt.Sprintf(format, v) }

func hexOf(s string) string { return hex.EncodeToString([]byte(s)) }
