"""From LLVM's relocatable objects to code objects: reading, linking, and what the metadata say of resources."""
