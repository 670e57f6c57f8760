// Package expectations is what the scenarios of both clients in Go are written with. What is not as expected is a
// panic, which ends one scenario.
package expectations

import (
	"fmt"
	"reflect"
)

// Must is the value, if there is no error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Check that there is no error.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Expect what was got to be what was wanted.
func Expect(got, wanted any, what string) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("%s: expected %v, got %v", what, wanted, got))
	}
}
