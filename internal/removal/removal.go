// Package removal removes folders with everything that programs have left in them.
package removal
