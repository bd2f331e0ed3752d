// Package removal removes folders with their contents, whatever programs have left in
// them.
package removal
