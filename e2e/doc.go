// Package e2e holds the tests that build the program and run it as people do.
package e2e
