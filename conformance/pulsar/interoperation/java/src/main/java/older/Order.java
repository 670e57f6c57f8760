package older;

/** The older version of the record. */
public final class Order {
    public String item;
    public Long count;
}
