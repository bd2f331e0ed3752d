// Package e2e contains the tests that build the program and run it as a user
// does.
package e2e
