package older;

/** A record as it was first. */
public final class Order {
    public String item;
    public Long count;
}
