"""From LLVM's relocatable objects to code objects: linking, and what the metadata say of resources."""
