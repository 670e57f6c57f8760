// Package expectations has the assertions for the scenarios of both Go clients. A failed assertion panics, which
// ends one scenario.
package expectations

import (
	"fmt"
	"reflect"
)

// Must returns the value, and panics if there is an error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Check panics if there is an error.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Expect panics if the values differ.
func Expect(got, wanted any, what string) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("%s: expected %v, got %v", what, wanted, got))
	}
}
