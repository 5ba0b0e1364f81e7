package strict

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/spelling"
)

// Limits holds each value of a struct against the limits that its tags give; no number may be negative. path is of the keys around it.
func Limits(at reflect.Value, path string) []Problem {
	var v limits
	v.fields(at, path)
	return v
}

// limits collects values beyond theirs.
type limits []Problem

func (v *limits) wrong(key, format string, args ...any) {
	*v = append(*v, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
}

func (v *limits) fields(at reflect.Value, path string) {
	for _, f := range FieldsOf(at.Type()) {
		value, key := at.Field(f.Index), Join(path, f.Name)
		switch value.Kind() {
		case reflect.Struct:
			v.fields(value, key)
		case reflect.Slice:
			if value.Type().Elem().Kind() != reflect.Struct {
				continue
			}
			for i := range value.Len() {
				v.fields(value.Index(i), key+"["+strconv.Itoa(i)+"]")
			}
		case reflect.Int, reflect.Int64:
			if least := leastOf(f, value); value.Int() < least.Int() {
				v.wrong(key, "%v is below the least, %v", value.Interface(), least.Interface())
			}
		case reflect.Float64:
			if !(value.Float() >= 0) || math.IsInf(value.Float(), 0) {
				v.wrong(key, "%v is below the least, 0", value.Float())
			}
		case reflect.String:
			if wrong := Choice(value.String(), f.Enum); wrong != "" {
				v.wrong(key, "%s", wrong)
			}
		}
	}
}

// leastOf is the smallest value that f may have, in the type of its value.
func leastOf(f Field, value reflect.Value) reflect.Value {
	least := reflect.New(value.Type()).Elem()
	switch value.Interface().(type) {
	case time.Duration:
		if d, err := time.ParseDuration(f.Min); err == nil {
			least.SetInt(int64(d))
		}
	case Bytes:
		if b, err := ParseBytes(f.Min); err == nil {
			least.SetInt(int64(b))
		}
	case int:
		if n, err := strconv.Atoi(f.Min); err == nil {
			least.SetInt(int64(n))
		}
	}
	return least
}

// Choice is what is wrong with a value that is none of the choices, the nearest of them first; "" where it is one, or anything may be.
func Choice(value string, choices []string) string {
	if choices == nil || slices.Contains(choices, value) {
		return ""
	}
	if near := spelling.Nearest(value, choices); near != "" {
		return fmt.Sprintf("%q is not known; did you mean %s?", value, near)
	}
	return fmt.Sprintf("%q is not known; choose one of %s", value, strings.TrimPrefix(strings.Join(choices, ", "), ", ")) // "" is to leave the line out
}
