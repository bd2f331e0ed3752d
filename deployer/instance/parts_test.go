package instance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A part of an instance, and a function, takes the parts that it needs. Only methods of
// Instance, which make parts from each other, and NewLook may know all of them.
func TestNoPartHoldsTheInstance(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	isInstance := func(e ast.Expr) bool {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		id, ok := e.(*ast.Ident)
		return ok && id.Name == "Instance"
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			var fields *ast.FieldList
			switch n := n.(type) {
			case *ast.StructType:
				fields = n.Fields
			case *ast.FuncDecl:
				if n.Name.Name != "NewLook" {
					fields = n.Type.Params
				}
			}
			if fields == nil {
				return true
			}
			for _, field := range fields.List {
				if isInstance(field.Type) {
					t.Errorf("%s: takes or holds the whole instance", fset.Position(field.Pos()))
				}
			}
			return true
		})
	}
	if len(paths) == 0 {
		t.Fatal(fs.ErrNotExist)
	}
}
