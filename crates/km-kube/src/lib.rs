//! Kubernetes objects without IO: schema, defaults, validation, selectors, quantities, patches, keys.
